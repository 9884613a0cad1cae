// Package wait waits with a time limit, and allocates nothing for it: a round
// waits once for each thing that its client is told. It knows nothing of what is
// waited for.
package wait
