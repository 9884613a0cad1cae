package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// client returns the configuration towards an external server.
func (t TLS) client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Name}
	if t.CA != "" {
		pool, err := t.pool()
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if t.Cert != "" || t.Key != "" {
		if _, err := t.certificate(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() }
	}
	return c, nil
}

// mutual returns the configuration of both ends of a route. The certificate is
// read for each handshake, so that a renewed one is taken up.
func (t TLS) mutual() (*tls.Config, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	c.ClientCAs = c.RootCAs
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() }
	return c, nil
}

func (t TLS) certificate() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &c, nil
}

func (t TLS) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CA: %s holds no certificate", t.CA)
	}
	return pool, nil
}
