//go:build !unix

package stdio

import (
	"io"
	"os"
)

// OpenLog returns the file.
func OpenLog(file *os.File) io.Writer { return file }
