-- The order service's own tables. They live in the database of the outbox and the inbox: that is what makes one
-- transaction of a business change and its event.
create schema millrace_demo;

create table millrace_demo.orders (
  id           text primary key,
  version      bigint not null,
  state        text not null,
  customer     text not null,
  sku          text not null,
  quantity     bigint not null,
  amount_cents bigint not null,
  currency     text not null
);

create table millrace_demo.stock (
  sku       text primary key,
  available bigint not null check (available >= 0)
);
insert into millrace_demo.stock select 'sku-' || n, 1000000000 from generate_series(1, 20) n;
insert into millrace_demo.stock values ('sku-sold-out', 0);

create table millrace_demo.currency (code text primary key);
insert into millrace_demo.currency values ('EUR'), ('USD'), ('GBP');

-- What is still to be paid for each order, as the projection knows it.
create table millrace_demo.balance (
  order_id text primary key,
  cents    bigint not null
);

-- A row each time a handler takes effect. It has no unique key on purpose: an effect that happened twice shows.
create table millrace_demo.effect (
  id       bigint generated always as identity primary key,
  consumer text not null,
  event_id text not null,
  order_id text not null,
  version  bigint not null
);
