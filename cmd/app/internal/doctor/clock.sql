-- How far the schema's clock is ahead of the server's, in milliseconds. No parameters. One row.
select (extract(epoch from {{schema}}.clock() - clock_timestamp()) * 1000)::bigint
