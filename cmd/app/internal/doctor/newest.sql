-- The newest migration that was applied, also one this program does not know. No parameters. One row: version.
select coalesce(max(version_id) filter (where is_applied), 0) from {{schema}}.schema_version
