//go:build unix

package main

import (
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// raiseFiles raises the limit of open files as far as it goes: each parked
// call holds a connection.
func raiseFiles(log zerolog.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn().Err(err).Msg("limit of open files unknown")
		return
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = limit.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
			limit = raised
		}
	}
	log.Debug().Uint64("files", limit.Cur).Msg("limit of open files")
}
