-- What operators have paused, and the version of all they have changed.
-- One row: version, paused topics, types and ids of paused aggregates. A handful of rows is read.
select c.version,
       array(select topic from {{schema}}.outbox_pause where topic is not null order by topic),
       array(select aggregate_type from {{schema}}.outbox_pause where topic is null order by aggregate_type, aggregate_id),
       array(select aggregate_id from {{schema}}.outbox_pause where topic is null order by aggregate_type, aggregate_id)
  from {{schema}}.outbox_control c
