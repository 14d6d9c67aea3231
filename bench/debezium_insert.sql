-- Writes events.
-- $1 ids, $2 topic, $3 aggregate ids, $4 event type, $5 payloads. No rows.
insert into outboxevent (id, aggregatetype, aggregateid, type, payload)
select id, $2::text, aggregate, $4::text, payload
  from unnest($1::uuid[], $3::text[], $5::jsonb[]) as e (id, aggregate, payload)
