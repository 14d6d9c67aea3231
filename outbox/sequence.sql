-- Whether the position sequence lags behind the table, as after a data-only restore or a logical-replication upgrade.
-- One row: last value handed out (0 if none), highest position in the table (0 if none), sequence name. Index:
-- outbox_shard_position_key, one probe a shard.
select coalesce(pg_sequence_last_value(pg_get_serial_sequence('{{schema}}.outbox', 'position')::regclass), 0),
       coalesce((select max(h.position)
                   from {{schema}}.outbox_shard s
                  cross join lateral (select max(o.position) as position from {{schema}}.outbox o where o.shard = s.shard) h), 0),
       pg_get_serial_sequence('{{schema}}.outbox', 'position')
