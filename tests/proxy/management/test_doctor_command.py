"""`manage.py doctor`: its report on a healthy and on a broken gateway."""

from tests.support.database import empty_database_url
from tests.support.gateway import Gateway


def test_doctor_reports_a_healthy_gateway(demo_gateway):
    done = demo_gateway.manage("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems found." in done.stdout
    assert "the model called report_health" in done.stdout


def test_doctor_reports_what_is_wrong(tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL=empty_database_url(tmp_path))
    done = gateway.manage("doctor")
    assert done.returncode != 0
    assert "migrations are missing. Run `manage.py migrate`." in done.stdout
    assert gateway.manage("migrate").returncode == 0
    assert "Start the gateway once" in gateway.manage("doctor").stdout
    gateway.start()
    gateway.stop()
    assert "Start the gateway with `make run`." in gateway.manage("doctor").stdout
