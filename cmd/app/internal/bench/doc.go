// Package bench measures the relay: in a database and on topics made for it, as a process of its own, next to what the same
// broker takes from a plain producer in the same run. What arrived is read back and counted.
package bench
