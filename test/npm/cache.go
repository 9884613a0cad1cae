package npm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Cached installs what the package.json and the lock file of a folder say into a
// folder of the user's cache, one for each lock file, which all checkouts share.
// It returns that folder.
func Cached(ctx context.Context, from string, log io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && name == ".npmrc" {
			continue
		}
		if err != nil {
			return "", err
		}
		files[name] = text
	}
	sum := sha256.Sum256(files["package-lock.json"])
	dir := filepath.Join(cache, "holdfast", "npm", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", fmt.Errorf("copy %s to the cache: %w", name, err)
		}
	}
	return dir, Install(ctx, dir, log)
}
