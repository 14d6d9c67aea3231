-- Topics that events are to go to: of the newest 100 of each shard, and of all that are parked or held. There is no index on
-- the topic, so one that only older events have is not found. No parameters. Rows: topic. Indexes: outbox_shard_position_key;
-- outbox_parked and outbox_lane are read.
select o.topic
  from {{schema}}.outbox_shard s
 cross join lateral (select e.topic from {{schema}}.outbox e where e.shard = s.shard order by e.position desc limit 100) o
 union
select coalesce(topic_override, topic) from {{schema}}.outbox_parked where state <> 'discarded'
 union
select topic from {{schema}}.outbox_lane
 order by 1
