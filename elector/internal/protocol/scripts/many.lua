-- This follows every election script, and runs it for each election of a call, in order: each
-- has KEYS_EACH keys and ARGS_EACH arguments. An error of one election becomes its answer: it
-- must not hide what was done for the elections before it, nor skip those after it.
-- -> a list of answers, each as the script gives it, or {'error', why}
local answers = {}
for i = 1, #KEYS / KEYS_EACH do
  local ok, answer = pcall(one, (i - 1) * KEYS_EACH, (i - 1) * ARGS_EACH)
  local err = not ok and answer or type(answer) == 'table' and answer.err
  if err then
    if type(err) == 'table' then err = err.err end
    err = string.gsub(err, '^%S*:%s*%d+: ', '') -- the position in the script
    -- A replica refuses all elections alike: the connection leads to the wrong server.
    if string.find(err, '^READONLY') then return redis.error_reply(err) end
    answer = {'error', err}
  end
  answers[i] = answer
end
return answers
