-- What an operator should see to while the relays work on. No parameters. outbox_lane has a row a shard and held topic;
-- outbox_parked is read up to a row that is quarantined.
-- One row: topics held, whether an event is quarantined.
select (select count(distinct topic) from {{schema}}.outbox_lane where held),
       exists (select from {{schema}}.outbox_parked where state = 'quarantined')
