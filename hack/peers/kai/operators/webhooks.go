package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// webhooks is where a manager answers admission reviews, on a free port of the loopback device.
type webhooks struct {
	server webhook.Server
	port   int
	bundle []byte
}

// newManager is a manager without leases, metrics and probes, which answers its webhooks on loopback.
func newManager(scheme *runtime.Scheme) (ctrl.Manager, *webhooks, error) {
	hooks, err := newWebhooks()
	if err != nil {
		return nil, nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.Burst = 200, 400
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer:          hooks.server,
	})
	return manager, hooks, err
}

// newWebhooks makes an authority, and a certificate of it for 127.0.0.1.
func newWebhooks() (*webhooks, error) {
	dir, err := os.MkdirTemp("", "operators-")
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := template(1)
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	bundle, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf := template(2)
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	certificate, err := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bundle})
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	secret = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": secret} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	options := webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}
	return &webhooks{server: webhook.NewServer(options), port: port, bundle: bundle}, nil
}

func template(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: fmt.Sprintf("operators-%d", serial)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(0, 1, 0),
	}
}

// install creates the configurations of a manifest, with the address of this process in the place of a Service's, once the
// server listens.
func (hooks *webhooks) install(manager ctrl.Manager, name, path string) error {
	manifest, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return manager.Add(runnable(func(ctx context.Context) error {
		if err := hooks.wait(ctx); err != nil {
			return err
		}
		return hooks.create(ctx, manager.GetClient(), name, manifest)
	}))
}

// wait returns when the server listens.
func (hooks *webhooks) wait(ctx context.Context) error {
	for hooks.server.StartedChecker()(nil) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (hooks *webhooks) create(ctx context.Context, api client.Client, name string, manifest []byte) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var raw runtime.RawExtension
		var kind metav1.TypeMeta
		if err := documents.Decode(&raw); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := yaml.Unmarshal(raw.Raw, &kind); err != nil {
			return err
		}
		var object client.Object
		switch kind.Kind {
		case "ValidatingWebhookConfiguration":
			config := &admission.ValidatingWebhookConfiguration{}
			if err := yaml.Unmarshal(raw.Raw, config); err != nil {
				return err
			}
			for at := range config.Webhooks {
				hooks.point(&config.Webhooks[at].ClientConfig)
			}
			config.Name = name
			object = config
		case "MutatingWebhookConfiguration":
			config := &admission.MutatingWebhookConfiguration{}
			if err := yaml.Unmarshal(raw.Raw, config); err != nil {
				return err
			}
			for at := range config.Webhooks {
				hooks.point(&config.Webhooks[at].ClientConfig)
			}
			config.Name = name
			object = config
		default:
			continue
		}
		if err := api.Create(ctx, object); err != nil {
			return fmt.Errorf("creating the %s %s: %w", kind.Kind, name, err)
		}
	}
}

// point replaces the Service of a webhook by this process.
func (hooks *webhooks) point(config *admission.WebhookClientConfig) {
	path := ""
	if config.Service != nil && config.Service.Path != nil {
		path = *config.Service.Path
	}
	url := fmt.Sprintf("https://127.0.0.1:%d%s", hooks.port, path)
	*config = admission.WebhookClientConfig{URL: &url, CABundle: hooks.bundle}
}

// runnable is a function that a manager runs beside its controllers.
type runnable func(ctx context.Context) error

func (run runnable) Start(ctx context.Context) error { return run(ctx) }
