-- Behind every script stands this, which runs it for each of the elections of a call, in
-- their order: an election has KEYS_EACH keys and ARGS_EACH arguments. What is wrong with one of them is that one's
-- answer: an error must not undo what was done for those before it, nor keep those behind it from their turn.
-- -> a list of answers, each as the script gives it, or {'error', why}
local answers = {}
for i = 1, #KEYS / KEYS_EACH do
  local keys, args = KEYS, ARGV
  if #KEYS > KEYS_EACH then
    keys, args = {}, {}
    for j = 1, KEYS_EACH do keys[j] = KEYS[(i - 1) * KEYS_EACH + j] end
    for j = 1, ARGS_EACH do args[j] = ARGV[(i - 1) * ARGS_EACH + j] end
  end
  local ok, answer = pcall(one, keys, args)
  local err = not ok and answer or type(answer) == 'table' and answer.err
  if err then
    if type(err) == 'table' then err = err.err end
    err = string.gsub(err, '^%S+:%s*%d+: ', '') -- where in the script
    -- A replica refuses all alike, and its connection leads to the wrong server.
    if string.find(err, '^READONLY') then return redis.error_reply(err) end
    answer = {'error', err}
  end
  answers[i] = answer
end
return answers
