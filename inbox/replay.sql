-- Has a dead letter handled again: from dead to parked, due now, with its audit row.
-- $1 consumer, $2 event_id, $3 actor, $4 reason. Rows affected: 1, or 0 if the event is not dead. Index: inbox_pkey.
with replayed as (
  update {{schema}}.inbox
     set state = 'parked', due_at = {{schema}}.clock(), replays = replays + 1, updated_at = {{schema}}.clock()
   where consumer = $1::text and event_id = $2::text and state = 'dead'
  returning consumer, event_id, topic, deaths, replays
)
insert into {{schema}}.audit (actor, action, subject, reason, detail)
select $3::text, 'inbox.replay', consumer || '/' || event_id, $4::text,
       jsonb_build_object('consumer', consumer, 'event_id', event_id, 'topic', topic, 'deaths', deaths, 'replays', replays)
  from replayed
