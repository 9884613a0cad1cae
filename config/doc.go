// Package config holds the settings of Holdfast: what they are called and mean
// (the struct tags of Config), their defaults (Defaults), what they may be
// (Validate), and where they come from (Load): the defaults, then a YAML file,
// then HOLDFAST_ environment variables, then flags; the later wins.
//
// The help text, the settings table of the README and the bounds that Validate
// enforces are made from the same tags. An unknown key and an impossible value
// are errors that name the key, the value and what is allowed; all of them are
// reported at once.
//
// The package knows nothing of what the settings are used for. A Config is
// plain data: whoever shares one between goroutines does not change it.
package config
