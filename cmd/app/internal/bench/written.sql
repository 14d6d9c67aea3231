-- How many events the outbox has, and how many of them have a place before that of an earlier version of their aggregate.
-- Rows: one, (events, out of order). Reads the whole table.
select count(*), count(*) filter (where aggregate_version < earlier)
  from (select aggregate_version,
               lag(aggregate_version) over (partition by aggregate_type, aggregate_id order by position) as earlier
          from {{schema}}.outbox) o
