-- The inbox: one row for each event each consumer has disposed of, in the transaction of its effect.

-- +goose Up

create table {{schema}}.inbox (
  consumer        text collate "C" not null check (octet_length(consumer) between 1 and 100),
  event_id        text collate "C" not null check (octet_length(event_id) between 1 and 255),
  -- done: took effect. dead: given up, kept whole for replay. parked: to be handled again at due_at.
  -- blocked: waits behind a parked event of the same key.
  state           text collate "C" not null check (state in ('done', 'parked', 'blocked', 'dead')),
  topic           text collate "C" not null,
  kafka_partition integer,
  kafka_offset    bigint,
  record_time     timestamptz,
  payload_hash    bytea not null,     -- SHA-256
  attempts        integer not null default 1,
  deaths          integer not null default 0,
  replays         integer not null default 0,
  due_at          timestamptz,
  -- The event itself and why it failed: only until it is done.
  record_key      bytea,              -- null = no key
  payload         bytea,              -- null = a tombstone
  headers         jsonb,              -- name -> text, or {"base64": bytes} where the bytes are not text
  error_class     text,
  first_error     text,
  last_error      text,
  stack           text,
  created_at      timestamptz not null default {{schema}}.clock(),
  updated_at      timestamptz not null default {{schema}}.clock(),
  xid             xid8 not null default pg_current_xact_id(),
  primary key (consumer, event_id),
  check (state = 'done' or headers is not null),
  check ((state = 'parked') = (due_at is not null))
);
create index inbox_due_idx on {{schema}}.inbox (consumer, due_at) where state = 'parked';
create index inbox_dead_idx on {{schema}}.inbox (updated_at) where state = 'dead';

-- What operators did, written in the transaction of what they did. Only ever inserted.
create table {{schema}}.audit (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default {{schema}}.clock(),
  actor   text not null,
  action  text not null,
  subject text not null,
  reason  text not null,
  detail  jsonb not null default '{}',
  xid     xid8 not null default pg_current_xact_id()
);

-- +goose Down
drop table {{schema}}.audit, {{schema}}.inbox;
