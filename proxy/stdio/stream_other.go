//go:build !unix

package stdio

import "os"

// Stream is one of the process's standard streams. Here a Read that waits ends
// with the process.
type Stream struct{ *os.File }

// Open makes a Stream of a file.
func Open(file *os.File) (*Stream, error) { return &Stream{file}, nil }
