-- Pauses a topic or an aggregate. $1 topic, $2 aggregate type, $3 aggregate id ('' = null), $4 reason, $5 actor.
-- Rows affected: 1, or 0 when it is paused already.
insert into {{schema}}.outbox_pause (topic, aggregate_type, aggregate_id, reason, actor)
values (nullif($1::text, ''), nullif($2::text, ''), nullif($3::text, ''), $4::text, $5::text)
    on conflict do nothing
