-- Parked events by state. No parameters. Rows: state, events, milliseconds since the oldest was parked. All of outbox_parked.
select state, count(*), (extract(epoch from {{schema}}.clock() - min(created_at)) * 1000)::bigint from {{schema}}.outbox_parked group by state
