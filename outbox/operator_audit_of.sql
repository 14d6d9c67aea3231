-- What operators, and relays by policy, did with one event in outbox and inbox alike: the newest 1000.
-- $1 event_id. Rows: at, actor, action, reason, detail, oldest first.
select at, actor, action, reason, detail
  from (select id, at, actor, action, reason, detail::text from {{schema}}.audit
         where subject = $1::text or detail ->> 'event_id' = $1::text order by id desc limit 1000) a
 order by id
