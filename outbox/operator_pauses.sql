-- What operators have paused, the longest first. No parameters. Rows: topic, aggregate type, aggregate id, reason, actor, since.
select coalesce(topic, ''), coalesce(aggregate_type, ''), coalesce(aggregate_id, ''), reason, actor, paused_at
  from {{schema}}.outbox_pause order by paused_at, topic, aggregate_type, aggregate_id
