-- The stored events that events just refused conflict with.
-- $1 event_id text[], $2 topic text, $3 aggregate_type text[] ('' = none), $4 aggregate_id text[], $5 aggregate_version
-- bigint[], $6 event_type text[].
-- One row an event, in the order given: the event_id of the stored event, itself first; null when there is none.
-- Indexes: outbox_pkey, outbox_aggregate_version_key.
select c.event_id
  from unnest($1::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       with ordinality u(event_id, aggregate_type, aggregate_id, aggregate_version, event_type, n)
  left join lateral (
       select o.event_id from {{schema}}.outbox o where o.event_id = u.event_id
       union all
       select o.event_id from {{schema}}.outbox o
        where o.aggregate_type = u.aggregate_type and o.aggregate_id = u.aggregate_id
          and o.aggregate_version = u.aggregate_version and o.topic = $2 and o.event_type = u.event_type
       limit 1) c on true
 order by u.n
