-- Reads parked events for people, in the order in which they were parked.
-- $1 event_ids text[] (null = all); '' matches everything in $2 state, $3 topic, $4 aggregate type, $5 aggregate id, $6 owner
-- and $7 error class; $8 parked for so many milliseconds at least; $9 entry of the last row of the page before; $10 most rows.
-- Rows: the event; of a blocked one the event_id and state of the head of its key, nulls when it is that itself, and whether
-- its aggregate is paused; of a head how many wait for it.
-- Indexes: outbox_parked_event_id_key, outbox_parked_key_idx, outbox_pause_aggregate_key.
select p.event_id, p.topic, p.partition_key, coalesce(p.aggregate_type, ''), coalesce(p.aggregate_id, ''), p.shard, p.position,
       p.entry, p.state, p.blocks, p.attempts, p.due_at, coalesce(p.stage, ''), coalesce(p.error_class, ''),
       coalesce(p.first_error, ''), coalesce(p.last_error, ''), coalesce(p.topic_override, ''), p.metadata_override::text,
       p.owner, p.revision, p.created_at, p.updated_at, coalesce(head.event_id, ''), coalesce(head.state, ''),
       exists (select from {{schema}}.outbox_pause a
                where a.topic is null and a.aggregate_type = p.aggregate_type and a.aggregate_id = p.aggregate_id),
       coalesce(behind.followers, 0)
  from (select * from {{schema}}.outbox_parked
         where ($1::text[] is null or event_id = any($1))
           and ($2::text = '' or state = $2) and ($3::text = '' or topic = $3)
           and ($4::text = '' or aggregate_type = $4 and aggregate_id = $5::text)
           and ($6::text = '' or owner = $6) and ($7::text = '' or error_class = $7)
           and created_at <= {{schema}}.clock() - $8::bigint * interval '1 millisecond' and entry > $9::bigint
         order by entry
         limit $10::bigint) p
  left join lateral (
       select first.event_id, first.state
         from (select h.entry, h.event_id, h.state from {{schema}}.outbox_parked h
                where h.blocks and h.shard = p.shard and h.topic = p.topic and h.partition_key = p.partition_key
                order by h.entry limit 1) first
        where p.state = 'blocked' and first.entry < p.entry) head on true
  left join lateral (
       select count(*) as followers from {{schema}}.outbox_parked f
        where p.blocks and p.state <> 'blocked'
          and f.blocks and f.shard = p.shard and f.topic = p.topic and f.partition_key = p.partition_key and f.entry > p.entry) behind on true
 order by p.entry
