-- This follows every election script, and runs it for each election of a call, in order: each
-- has KEYS_EACH keys and ARGS_EACH arguments. An error of one election becomes its answer: it
-- must not hide what was done for the elections before it, nor skip those after it.
-- -> a list of answers, each as the script gives it, or {'error', why}
local answers = {}
local function run(k, a)
  local keys, args = KEYS, ARGV
  if #KEYS > KEYS_EACH then
    keys, args = {}, {}
    for j = 1, KEYS_EACH do keys[j] = KEYS[k + j] end
    for j = 1, ARGS_EACH do args[j] = ARGV[a + j] end
  end
  local ok, answer = pcall(one, keys, args)
  local err = not ok and answer or type(answer) == 'table' and answer.err
  if err then
    if type(err) == 'table' then err = err.err end
    err = string.gsub(err, '^%S+:%s*%d+: ', '') -- the position in the script
    answer = {'error', err}
  end
  return answer
end
for i = 1, #KEYS / KEYS_EACH do
  local k, a = (i - 1) * KEYS_EACH, (i - 1) * ARGS_EACH
  local answer = run(k, a)
  -- A replica refuses all elections alike: the connection leads to the wrong server.
  if type(answer) == 'table' and answer[1] == 'error' and string.find(answer[2], '^READONLY') then return redis.error_reply(answer[2]) end
  answers[i] = answer
end
return answers
