-- Who is there, and what operators have paused. No parameters. At most a few hundred tiny rows are read.
-- One row: live relays, shards, shards without a live owner, the most takeovers in a row without progress of any shard, paused
-- topics, paused aggregates.
select (select count(*) from {{schema}}.outbox_relay where lease_until > {{schema}}.clock()),
       (select count(*) from {{schema}}.outbox_shard),
       (select count(*) from {{schema}}.outbox_shard s
          left join {{schema}}.outbox_relay r on r.relay_id = s.relay_id and r.lease_until > {{schema}}.clock()
         where r.relay_id is null),
       (select coalesce(max(takeovers), 0) from {{schema}}.outbox_shard),
       (select count(*) from {{schema}}.outbox_pause where topic is not null),
       (select count(*) from {{schema}}.outbox_pause where topic is null)
