-- Takes a replayed event: moves its row from parked to done, first of all in the transaction that handles it. Whoever finds it
-- locked leaves it to the holder, who is handling it now.
-- $1, $2: idle-in-transaction and lock limits as text with unit. $3 consumer, $4 event_id, $5 further attempts.
-- Rows affected: 1, or 0 if it is no longer parked or is taken. Index: inbox_pkey.
with limits as materialized (
  select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)
), mine as materialized (
  select i.consumer, i.event_id
    from limits, {{schema}}.inbox i
   where i.consumer = $3::text and i.event_id = $4::text and i.state = 'parked'
     for update of i skip locked
)
update {{schema}}.inbox i
   set state = 'done', due_at = null, attempts = i.attempts + $5::integer, updated_at = {{schema}}.clock(),
       record_key = null, payload = null, headers = null, error_class = null, first_error = null, last_error = null, stack = null
  from mine
 where i.consumer = mine.consumer and i.event_id = mine.event_id
