-- Writes events. The VALUES list follows, one group of thirteen parameters an event in the order of the columns; it is
-- appended by the caller, because for one event it takes half the time of unnest() over arrays, and no more for many.
-- Nothing is said about conflicts: an event written twice is an error unless the caller appends otherwise.
insert into {{schema}}.outbox (event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version, event_type,
                               event_version, tenant, partition_key, payload, metadata, deliver_at)
values
