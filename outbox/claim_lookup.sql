-- What a claim whose answer was lost has really got.
-- $1 relay_id, $2 claim_id. Rows: as of claim.sql, taken over unknown. Index: none needed, one row a shard.
select shard, claim_version, frontier_snapshot::text, frontier_position, false, takeovers, coalesce(suspect, 0), suspect_tries
  from {{schema}}.outbox_shard
 where relay_id = $1::text::uuid and claim_id = $2::text::uuid
