// Package bench measures: relays as processes of their own, next to what the same broker takes from a plain producer in the
// same run, and the writing of events next to Watermill's own publisher. It works in a database and on topics made for it,
// and removes them. What arrived is read back and counted, one record at a time.
package bench
