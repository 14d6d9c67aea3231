-- For the transaction that follows: rows by their index in order, however few the statistics expect, and no compilation of a
-- statement that runs once. No parameters. One row.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('jit', 'off', true)
