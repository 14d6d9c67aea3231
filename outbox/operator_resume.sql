-- Ends a pause. $1 topic, $2 aggregate type, $3 aggregate id ('' = null). Rows affected: 1, or 0 when it is not paused.
delete from {{schema}}.outbox_pause
 where topic is not distinct from nullif($1::text, '') and aggregate_type is not distinct from nullif($2::text, '')
   and aggregate_id is not distinct from nullif($3::text, '')
