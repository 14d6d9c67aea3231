-- How many events are parked, and since when the first of them, by state. No parameters.
-- Rows: state, events, seconds; none for a state without events. The table is read: it holds what did not go straight through.
select state, count(*), coalesce(extract(epoch from {{schema}}.clock() - min(created_at)), 0)::float8
  from {{schema}}.outbox_parked
 group by state
