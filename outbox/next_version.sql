-- The next version of an aggregate, the first being 1. $1 aggregate_type, $2 aggregate_id. One row.
-- The row stays locked until the transaction ends, so versions follow the order of commits and have no gaps.
-- Index: aggregate_version_pkey.
insert into {{schema}}.aggregate_version as v (aggregate_type, aggregate_id, version)
values ($1, $2, 1)
    on conflict (aggregate_type, aggregate_id) do update set version = v.version + 1
returning version
