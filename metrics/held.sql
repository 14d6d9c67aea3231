-- The topics nothing is sent to, those held longest first. $1 topics at most. outbox_lane is read, which has a row a shard and
-- held topic.
-- Rows: topic, reason, seconds since when, and how many topics there are in all.
select topic, min(reason), greatest(0, extract(epoch from {{schema}}.clock() - min(since)))::float8, count(*) over ()
  from {{schema}}.outbox_lane
 where held
 group by topic
 order by min(since), topic
 limit $1::int
