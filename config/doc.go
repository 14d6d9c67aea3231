// Package config turns defaults, a YAML file, the environment and flags, each going before the one it is named after, into
// one validated Config.
//
//	c, err := config.Load(config.Sources{File: "millrace.yaml", Flags: flags})
//
// Everything that is wrong is reported at once: Load's error is a Problems, each with the key, where the value came from
// and what to do about it. Secrets come from the environment or from files of their own, never from the configuration
// file. Only the command uses this package; libraries take plain Config structs.
package config
