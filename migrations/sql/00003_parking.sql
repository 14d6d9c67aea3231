-- What does not go straight through: events that wait, topics that are held, what operators have paused.

-- +goose Up

alter table {{schema}}.outbox add column deliver_at timestamptz;  -- not before; null = at once

-- Where the event went, when an operator sent it elsewhere than to its own topic.
alter table {{schema}}.outbox_receipt add column topic text collate "C";

-- For the guard against an event that takes its relay down: takeovers without progress, and the event that was being sent
-- alone, how many times.
alter table {{schema}}.outbox_shard
  add column takeovers     integer not null default 0,
  add column suspect       bigint,
  add column suspect_tries integer not null default 0;

-- Events that have been read but not sent. A row goes when the receipt comes; a discarded one stays.
create table {{schema}}.outbox_parked (
  shard             smallint not null,
  position          bigint not null,
  event_id          text collate "C" not null,
  topic             text collate "C" not null,
  partition_key     text collate "C",
  aggregate_type    text collate "C",
  aggregate_id      text collate "C",
  -- scheduled: for due_at, outside the order of its key until then. retrying: refused, to be tried again at due_at.
  -- blocked: waits behind an event of its key, or for its aggregate to be resumed. quarantined: refused too often, waits
  -- for a person. discarded: given up by a person, never sent.
  state             text collate "C" not null
                    check (state in ('scheduled', 'retrying', 'blocked', 'quarantined', 'discarded')),
  entry             bigint generated always as identity,  -- the order within a key
  blocks            boolean not null,                     -- it takes part in the order of its key: later ones wait
  attempts          integer not null default 0,
  due_at            timestamptz,
  stage             text collate "C",                     -- where it failed: decode, publish, relay
  error_class       text collate "C",
  first_error       text,
  last_error        text,
  topic_override    text collate "C" check (topic_override ~ '^[a-zA-Z0-9._-]{1,249}$' and topic_override not in ('.', '..')),
  metadata_override jsonb,                                -- string = add or replace a key, null = remove one
  owner             text not null default '',             -- who repairs it
  revision          integer not null default 0,           -- changes with every change by an operator
  created_at        timestamptz not null default {{schema}}.clock(),
  updated_at        timestamptz not null default {{schema}}.clock(),
  xid               xid8 not null default pg_current_xact_id(),
  primary key (shard, position),
  check ((state in ('scheduled', 'retrying')) = (due_at is not null)),
  check (not blocks or state in ('retrying', 'blocked', 'quarantined') and partition_key is not null),
  check (state <> 'blocked' or blocks)
);
create unique index outbox_parked_event_id_key on {{schema}}.outbox_parked (event_id);
create index outbox_parked_key_idx on {{schema}}.outbox_parked (shard, topic, partition_key, entry) where blocks;
create index outbox_parked_due_idx on {{schema}}.outbox_parked (shard, due_at) where due_at is not null;

-- A held topic's own frontier in each shard: the shard's frontier goes on without it, and it catches up when it is let go.
create table {{schema}}.outbox_lane (
  shard             smallint not null,
  topic             text collate "C" not null,
  frontier_snapshot pg_snapshot not null,
  frontier_position bigint not null check (frontier_position >= 0),
  held              boolean not null,  -- false = catching up
  -- paused: by an operator. unavailable: missing, forbidden or changed. stalled: others went on while it did not.
  reason            text collate "C" not null check (reason in ('paused', 'unavailable', 'stalled')),
  last_error        text not null default '',
  failures          integer not null default 0,
  since             timestamptz not null default {{schema}}.clock(),
  primary key (shard, topic)
) with (fillfactor = 50);

-- What operators have paused: a topic, or an aggregate in all topics.
create table {{schema}}.outbox_pause (
  topic          text collate "C",
  aggregate_type text collate "C",
  aggregate_id   text collate "C",
  reason         text not null,
  actor          text not null,
  paused_at      timestamptz not null default {{schema}}.clock(),
  check ((topic is null) <> (aggregate_type is null) and (aggregate_type is null) = (aggregate_id is null))
);
create unique index outbox_pause_topic_key on {{schema}}.outbox_pause (topic) where topic is not null;
create unique index outbox_pause_aggregate_key on {{schema}}.outbox_pause (aggregate_type, aggregate_id) where topic is null;

-- One row. Whoever changes what relays have to follow, pauses and parked rows, raises the version in the same transaction;
-- relays see it with their next read.
create table {{schema}}.outbox_control (
  one     boolean primary key default true check (one),
  version bigint not null default 1
) with (fillfactor = 50);
insert into {{schema}}.outbox_control default values;

drop view {{schema}}.outbox_status;
create view {{schema}}.outbox_status as
select o.position, o.event_id, o.topic, o.kind, o.aggregate_type, o.aggregate_id, o.aggregate_version, o.event_type,
       o.shard, o.created_at,
       case when r.position is not null then 'sent'
            when p.position is not null then p.state
            when l.lease_until > {{schema}}.clock() then 'claimed'
            else 'pending' end as state,
       r.sent_at, coalesce(r.attempts, p.attempts, 0) as attempts, r.kafka_partition, r.kafka_offset,
       p.due_at, p.owner, p.stage, p.first_error, p.last_error
  from {{schema}}.outbox o
  left join {{schema}}.outbox_receipt r using (shard, position)
  left join {{schema}}.outbox_parked p using (shard, position)
  left join {{schema}}.outbox_shard s using (shard)
  left join {{schema}}.outbox_relay l on l.relay_id = s.relay_id;

-- +goose Down
drop view {{schema}}.outbox_status;
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
drop table {{schema}}.outbox_control, {{schema}}.outbox_pause, {{schema}}.outbox_lane, {{schema}}.outbox_parked;
alter table {{schema}}.outbox_shard drop column takeovers, drop column suspect, drop column suspect_tries;
alter table {{schema}}.outbox_receipt drop column topic;
alter table {{schema}}.outbox drop column deliver_at;
