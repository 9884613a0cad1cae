// Package socket reads and writes the sockets of package net from inside the
// callbacks of a syscall.RawConn. It knows nothing of what goes over them.
//
// On Linux (386 aside) its system calls are unknown to the scheduler of the runtime. A
// socket of package net never blocks, so that the scheduler has nothing to gain
// from knowing; yet what it does about each call, above all the thread that
// looks for calls which last, costs a proxy a tenth of its time. The
// descriptors must be such sockets: a call that did block would hold up garbage
// collection.
//
// Elsewhere, and under the race detector, which learns from package syscall
// that what is read was written before, it is package syscall.
package socket
