package bus

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// BenchmarkAsk compares a short exchange, one message each way, with a plain
// NATS request in the same set-up and the same run, by their medians.
func BenchmarkAsk(b *testing.B) {
	b.Run("cluster", func(b *testing.B) {
		all := cluster(b, 2, func(_ int, s *Settings) { s.OwnerTimeout = 3 * time.Second })
		compare(b, all[0], all[1])
	})
	b.Run("embedded", func(b *testing.B) {
		only := open(b, Settings{Replica: "only", OwnerTimeout: 3 * time.Second})
		compare(b, only, only)
	})
}

func compare(b *testing.B, from, to *Bus) {
	serveEcho(to)
	sub, err := to.nc.Subscribe("plain", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	msg := make([]byte, 1024)
	plain := func() {
		if _, err := from.nc.Request("plain", msg, time.Second); err != nil {
			b.Fatal(err)
		}
	}
	asked := func() {
		s, err := from.Ask(b.Context(), to.Replica(), echoKind, msg)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Recv(time.Now().Add(time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	await(b, "plain subscription", func() bool {
		_, err := from.nc.Request("plain", nil, time.Second)
		return err == nil
	})
	timed := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	b.ReportAllocs()
	var floor, ours []time.Duration
	for b.Loop() {
		floor = append(floor, timed(plain))
		ours = append(ours, timed(asked))
	}
	slices.Sort(floor)
	slices.Sort(ours)
	p50 := func(d []time.Duration) float64 { return float64(d[len(d)/2].Nanoseconds()) / 1000 }
	p99 := func(d []time.Duration) float64 { return float64(d[len(d)*99/100].Nanoseconds()) / 1000 }
	b.ReportMetric(p50(floor), "us-request")
	b.ReportMetric(p50(ours), "us-ask")
	b.ReportMetric(p50(ours)/p50(floor), "ratio")
	b.ReportMetric(p99(ours)/p50(ours), "p99/p50")
}

// BenchmarkLarge is a 10 MiB answer across a route.
func BenchmarkLarge(b *testing.B) {
	all := cluster(b, 2, func(_ int, s *Settings) { s.OwnerTimeout = 3 * time.Second })
	large := make([]byte, 10<<20)
	serveLarge(all[1], large)
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		s, err := all[0].Ask(b.Context(), "r1", echoKind, nil)
		if err != nil {
			b.Fatal(err)
		}
		if m, err := recv(b, s); err != nil || len(m) != len(large) {
			b.Fatal(len(m), err)
		}
		s.Close()
	}
}
