-- The outbox: events as their business transactions wrote them, what the broker acknowledged, and who may relay them.
-- No row of outbox or outbox_receipt is ever updated: dead tuples would slow every poll.

-- +goose Up

-- The one clock. Leases, receipts and due times use it, never a client's clock; tests shift it by replacing it.
create function {{schema}}.clock() returns timestamptz language sql volatile as 'select clock_timestamp()';

-- Which incarnation of which cluster this is: system identifier, WAL timeline, start time. Transaction ids, positions and
-- snapshots remembered under one anchor mean nothing under another. Raises on a hot standby, where nothing may be relayed.
create function {{schema}}.anchor() returns text language sql volatile as $$
  select c.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
         || '/' || extract(epoch from pg_postmaster_start_time())
    from pg_control_system() c
$$;

create table {{schema}}.outbox (
  position          bigint generated always as identity,
  event_id          text collate "C" not null primary key check (octet_length(event_id) between 1 and 255),
  topic             text collate "C" not null check (topic ~ '^[a-zA-Z0-9._-]{1,249}$' and topic not in ('.', '..')),
  kind              text collate "C" not null default 'fact' check (kind in ('fact', 'command')),
  aggregate_type    text collate "C",
  aggregate_id      text collate "C",
  aggregate_version bigint check (aggregate_version > 0),
  event_type        text collate "C" not null default '',
  event_version     integer not null default 1 check (event_version > 0),
  tenant            text collate "C",
  partition_key     text collate "C",  -- the record key; null = no key, '' = a zero-length key
  payload           bytea,             -- null = a tombstone, not the same as empty
  metadata          jsonb not null default '{}',
  -- Generated, so that no writer can put an event where no relay looks. Events without a key spread by their id.
  shard             smallint not null generated always as
                      (mod(hashtextextended(coalesce(partition_key, event_id), 0) & 9223372036854775807, {{shards}})::smallint) stored,
  created_at        timestamptz not null default {{schema}}.clock(),
  xid               xid8 not null default pg_current_xact_id(),
  check ((aggregate_type is null) = (aggregate_id is null) and (aggregate_id is null) = (aggregate_version is null)),
  -- position alone is not unique: a sequence that was reset would repeat one. This makes it loud within a shard.
  constraint outbox_shard_position_key unique (shard, position),
  constraint outbox_aggregate_version_key unique (aggregate_type, aggregate_id, aggregate_version, topic, event_type)
);
create index outbox_xid_position_idx on {{schema}}.outbox (xid, position);

create table {{schema}}.outbox_receipt (
  shard           smallint not null,
  position        bigint not null,
  kafka_partition integer,           -- null when the publisher does not tell
  kafka_offset    bigint,
  attempts        integer not null,
  claim_version   bigint not null,
  sent_at         timestamptz not null default {{schema}}.clock(),
  xid             xid8 not null default pg_current_xact_id(),
  primary key (shard, position)
);

create table {{schema}}.outbox_relay (
  relay_id    uuid primary key,
  name        text not null,
  lease_ms    bigint not null check (lease_ms > 0),  -- how long a lease this relay takes
  lease_until timestamptz not null,
  started_at  timestamptz not null default {{schema}}.clock()
);

-- One row a shard, for ever: their number is the shard count. The lease is the owner's, in outbox_relay.
create table {{schema}}.outbox_shard (
  shard             smallint primary key check (shard between 0 and {{shards}} - 1),
  relay_id          uuid,
  claim_id          uuid,
  claim_version     bigint not null default 0,
  frontier_snapshot pg_snapshot not null default '1:1:',
  frontier_position bigint not null default 0 check (frontier_position >= 0),
  anchor            text not null default '',
  check ((relay_id is null) = (claim_id is null))
) with (fillfactor = 50);
insert into {{schema}}.outbox_shard (shard) select generate_series(0, {{shards}} - 1);

-- The last version handed out for an aggregate.
create table {{schema}}.aggregate_version (
  aggregate_type text collate "C" not null,
  aggregate_id   text collate "C" not null,
  version        bigint not null check (version > 0),
  primary key (aggregate_type, aggregate_id)
) with (fillfactor = 80);

-- For people and dashboards: each event with its one state.
create view {{schema}}.outbox_status as
select o.position, o.event_id, o.topic, o.kind, o.aggregate_type, o.aggregate_id, o.aggregate_version, o.event_type,
       o.shard, o.created_at,
       case when r.position is not null then 'sent'
            when l.lease_until > {{schema}}.clock() then 'claimed'
            else 'pending' end as state,
       r.sent_at, coalesce(r.attempts, 0) as attempts, r.kafka_partition, r.kafka_offset
  from {{schema}}.outbox o
  left join {{schema}}.outbox_receipt r using (shard, position)
  left join {{schema}}.outbox_shard s using (shard)
  left join {{schema}}.outbox_relay l on l.relay_id = s.relay_id;

-- +goose Down
drop view {{schema}}.outbox_status;
drop table {{schema}}.aggregate_version, {{schema}}.outbox_shard, {{schema}}.outbox_relay, {{schema}}.outbox_receipt, {{schema}}.outbox;
drop function {{schema}}.anchor();
drop function {{schema}}.clock();
