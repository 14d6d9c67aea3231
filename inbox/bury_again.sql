-- Gives up an event that was replayed and failed again: from parked back to dead, first of all in the transaction that ends the
-- delivery. Waits for whoever is handling it at this moment, within the lock limit.
-- $1, $2: idle-in-transaction and lock limits as text with unit. $3 consumer, $4 event_id, $5 further attempts, $6 error class,
-- $7 first error of this round, $8 last error, $9 stack. Rows: the number of deaths, or none if it is no longer parked.
-- Index: inbox_pkey.
with limits as materialized (
  select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)
)
update {{schema}}.inbox i
   set state = 'dead', due_at = null, attempts = i.attempts + $5::integer, deaths = i.deaths + 1, error_class = $6::text,
       first_error = coalesce(i.first_error, $7::text), last_error = $8::text, stack = nullif($9::text, ''),
       updated_at = {{schema}}.clock()
  from limits
 where i.consumer = $3::text and i.event_id = $4::text and i.state = 'parked'
returning i.deaths
