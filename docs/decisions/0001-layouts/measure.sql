-- What one event costs the database in each layout of an outbox.
-- Run by measure.sh with the variables events, batch and label. Everything lives in the schema outbox_layouts.
\set ON_ERROR_STOP on
\set QUIET on
set client_min_messages = warning;
drop schema if exists outbox_layouts cascade;
create schema outbox_layouts;
set search_path = outbox_layouts;

-- Updated rows: the state of an event is in its row. "claim and mark" takes rows by an update and marks them sent by
-- another; "mark" has its claims elsewhere and only marks.
create table claim_and_mark (
    position bigint generated always as identity,
    event_id text primary key,
    topic text not null,
    aggregate_id text not null,
    aggregate_version bigint not null,
    shard smallint not null,
    payload bytea not null,
    metadata jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    claim_id uuid,
    claim_version bigint not null default 0,
    lease_until timestamptz,
    attempts int not null default 0,
    sent_at timestamptz,
    unique (aggregate_id, aggregate_version, topic)
);
create index on claim_and_mark (position) where sent_at is null;
create index on claim_and_mark (shard, position) where sent_at is null;
create table mark (like claim_and_mark including all);

-- Appended rows: an event is written once, and that it was sent is a second row elsewhere.
create table append (
    position bigint generated always as identity,
    event_id text primary key,
    topic text not null,
    aggregate_id text not null,
    aggregate_version bigint not null,
    shard smallint not null,
    payload bytea not null,
    metadata jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    xid xid8 not null default pg_current_xact_id(),
    unique (aggregate_id, aggregate_version, topic)
);
create unique index on append (position);
create index on append (xid, position);
create table append_receipt (
    position bigint primary key,
    kafka_partition int not null,
    kafka_offset bigint not null,
    sent_at timestamptz not null default clock_timestamp()
);

create table result (layout text, step text, events int, seconds numeric, wal_bytes numeric);

create procedure record(layout text, step text, events int, began timestamptz, wal pg_lsn) language sql as $$
    insert into result
    values (layout, step, events, extract(epoch from clock_timestamp() - began), pg_current_wal_insert_lsn() - wal)
$$;

-- The writer: transactions of 500 events of about 280 bytes, spread over 1,000 aggregates.
create procedure write(layout text, events int) language plpgsql as $$
declare
    began timestamptz := clock_timestamp();
    wal pg_lsn := pg_current_wal_insert_lsn();
begin
    for round in 1..events / 500 loop
        execute format($insert$
            insert into %I (event_id, topic, aggregate_id, aggregate_version, shard, payload, metadata)
            select gen_random_uuid()::text, 'orders', 'order-' || event %% 1000, $1 * 1000 + event, event %% 64,
                   convert_to(jsonb_build_object('order', event, 'state', 'paid', 'note', repeat('x', 200))::text, 'UTF8'),
                   '{"trace": "none"}'
            from generate_series(1, 500) event
        $insert$, layout) using round;
        commit;
    end loop;
    call record(layout, 'write', events, began, wal);
end $$;

-- The relay's side of the database: take a batch with its payload, commit, settle it, commit. Kafka is left out.
create procedure relay_claim_and_mark(batch int) language plpgsql as $$
declare
    began timestamptz := clock_timestamp();
    wal pg_lsn := pg_current_wal_insert_lsn();
    claim uuid;
    taken text[];
    bytes bigint;
    total int := 0;
begin
    loop
        claim := gen_random_uuid();
        with due as (
            select event_id from claim_and_mark
            where sent_at is null and (lease_until is null or lease_until < clock_timestamp())
            order by position limit batch
            for update skip locked
        ), claimed as (
            update claim_and_mark o
            set claim_id = claim, claim_version = claim_version + 1, attempts = attempts + 1,
                lease_until = clock_timestamp() + interval '1 minute'
            from due where o.event_id = due.event_id
            returning o.event_id, o.payload
        )
        select array_agg(event_id), sum(length(payload)) into taken, bytes from claimed;
        commit;
        exit when taken is null;
        update claim_and_mark set sent_at = clock_timestamp(), lease_until = null
        where event_id = any (taken) and claim_id = claim;
        commit;
        total := total + cardinality(taken);
    end loop;
    call record('claim_and_mark', 'relay', total, began, wal);
end $$;

create procedure relay_mark(batch int) language plpgsql as $$
declare
    began timestamptz := clock_timestamp();
    wal pg_lsn := pg_current_wal_insert_lsn();
    taken text[];
    bytes bigint;
    total int := 0;
begin
    loop
        select array_agg(event_id), sum(length(payload)) into taken, bytes from (
            select event_id, payload from mark where sent_at is null order by position limit batch
        ) due;
        commit;
        exit when taken is null;
        update mark set sent_at = clock_timestamp() where event_id = any (taken) and sent_at is null;
        commit;
        total := total + cardinality(taken);
    end loop;
    call record('mark', 'relay', total, began, wal);
end $$;

create procedure relay_append(batch int) language plpgsql as $$
declare
    began timestamptz := clock_timestamp();
    wal pg_lsn := pg_current_wal_insert_lsn();
    last_read bigint := 0;
    taken bigint[];
    bytes bigint;
    total int := 0;
begin
    loop
        select array_agg(position), sum(length(payload)) into taken, bytes from (
            select position, payload from append where position > last_read order by position limit batch
        ) due;
        commit;
        exit when taken is null;
        insert into append_receipt (position, kafka_partition, kafka_offset)
        select position, position % 6, position from unnest(taken) position;
        commit;
        last_read := taken[cardinality(taken)];
        total := total + cardinality(taken);
    end loop;
    call record('append', 'relay', total, began, wal);
end $$;

call write('claim_and_mark', :events);
call write('mark', :events);
call write('append', :events);
call relay_claim_and_mark(:batch);
call relay_mark(:batch);
call relay_append(:batch);

-- The statistics are written within a second or so.
select pg_sleep(2) \g /dev/null
\pset footer off
select :'label' as run, layout,
       round(max(events / seconds) filter (where step = 'write')) as "written/s",
       round(max(events / seconds) filter (where step = 'relay')) as "relayed/s",
       round(max(wal_bytes / events) filter (where step = 'relay')) as "WAL bytes/event",
       (select round((n_tup_upd + n_tup_del)::numeric / nullif(n_tup_ins, 0), 1)
        from pg_stat_user_tables where schemaname = 'outbox_layouts' and relname = layout) as "dead tuples/event"
from result group by layout order by array_position(array['claim_and_mark', 'mark', 'append'], layout);
drop schema outbox_layouts cascade;
