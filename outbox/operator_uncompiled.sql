-- Until the end of the transaction statements are not compiled: for the operator's that would take longer than running them.
set local jit = off
