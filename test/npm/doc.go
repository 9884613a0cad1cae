// Package npm installs what a test needs from npm, pinned by the lock file
// beside its package.json, into a node_modules folder that git ignores.
//
// [Install] does nothing where node_modules already is what the lock file says,
// so that a second run needs no network. [Cached] does it in the user's cache, for what
// is large. What is missing on the machine is an
// error that says what to install; nothing is skipped in silence.
package npm
