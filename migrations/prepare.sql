-- What is there already. $1 = the schema's name. One row; expected plan: a catalog look-up.
select current_setting('server_version_num')::integer,
       to_regnamespace(quote_ident($1)) is not null,
       to_regclass(quote_ident($1) || '.schema_version') is not null,
       to_regclass(quote_ident($1) || '.outbox_shard') is not null;
