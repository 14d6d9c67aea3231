-- The table that Debezium's outbox event router expects, with its standard columns. aggregatetype names the topic.
create table outboxevent (
  id            uuid primary key,
  aggregatetype varchar(255) not null,
  aggregateid   varchar(255) not null,
  type          varchar(255) not null,
  payload       jsonb not null
)
