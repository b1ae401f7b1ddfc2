//! Keys, sign-in links and sign-ins as rows. What they mean is in `crate::access`.

use glassbox_shared::actor::Role;
use glassbox_shared::id::KeyId;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::records::{KeyRecord, LinkRecord, Revoked, SecretHash, SignInRecord};
use super::{Store, StoreError, parse};

/// Keys that a list shows at most: active ones (few) first, then the newest revoked ones.
const LISTED_KEYS: usize = 200;

impl Store {
    /// Writes a new key down, unless its tenant has `most` active ones already (then `false`).
    pub async fn insert_key(&self, key: &KeyRecord, most: usize) -> Result<bool, StoreError> {
        let key = key.clone();
        self.write(move |connection| {
            let active: usize = connection
                .prepare_cached("SELECT count(*) FROM keys WHERE tenant = ?1 AND revoked_at IS NULL")?
                .query_row([&key.tenant], |row| row.get::<_, i64>(0))?
                .try_into()
                .unwrap_or(usize::MAX);
            if active >= most {
                return Ok(false);
            }
            insert_key(connection, &key)?;
            Ok(true)
        })
        .await
    }

    /// The tenant's keys: active ones first, newest first, at most 200.
    pub async fn keys(&self, tenant: &str) -> Result<Vec<KeyRecord>, StoreError> {
        let tenant = tenant.to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM keys WHERE tenant = ?1 ORDER BY revoked_at IS NOT NULL, created_at DESC, id LIMIT ?2",
            )?;
            statement.query_and_then(params![tenant, LISTED_KEYS as i64], key_from_row)?.collect()
        })
        .await
    }

    /// The key with this hash, revoked or not.
    pub async fn key_by_hash(&self, hash: SecretHash) -> Result<Option<KeyRecord>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT * FROM keys WHERE hash = ?1")?;
            let found = statement.query_row([&hash[..]], |row| Ok(key_from_row(row))).optional()?;
            found.transpose()
        })
        .await
    }

    /// What only this server knows, the same after a restart and in what is restored from a backup.
    pub async fn server_secret(&self) -> Result<String, StoreError> {
        self.read(|connection| Ok(connection.query_row("SELECT secret FROM server", [], |row| row.get(0))?)).await
    }

    /// Does any tenant have an active operator's key?
    pub async fn has_operator_key(&self) -> Result<bool, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT 1 FROM keys WHERE role = ?1 AND revoked_at IS NULL")?;
            Ok(statement.exists([Role::Operator.as_str()])?)
        })
        .await
    }

    /// Revokes a key of this tenant and ends the sign-ins made with it; with `keep_operator` not the last active
    /// operator's key.
    pub async fn revoke_key(
        &self,
        tenant: &str,
        id: &KeyId,
        at: f64,
        keep_operator: bool,
    ) -> Result<Revoked, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        self.write(move |connection| revoke_key(connection, &tenant, &id, at, keep_operator)).await
    }

    /// Writes a new link down.
    pub async fn insert_link(&self, link: &LinkRecord) -> Result<(), StoreError> {
        let link = link.clone();
        self.write(move |connection| {
            connection
                .prepare_cached("INSERT INTO links (hash, tenant, role, expires_at) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![&link.hash[..], link.tenant, link.role.as_str(), link.expires_at])?;
            Ok(())
        })
        .await
    }

    /// Takes a link, and signs its opener in: both or nothing, and only once. `sign_in` makes the sign-in from the link.
    /// `None`: there is no such link, or not any more.
    pub async fn take_link(
        &self,
        hash: SecretHash,
        now: f64,
        sign_in: impl Fn(&LinkRecord) -> SignInRecord + Send + 'static,
    ) -> Result<Option<SignInRecord>, StoreError> {
        self.write(move |connection| {
            let mut statement =
                connection.prepare_cached("DELETE FROM links WHERE hash = ?1 AND expires_at > ?2 RETURNING *")?;
            let taken = statement.query_row(params![&hash[..], now], |row| Ok(link_from_row(row))).optional()?;
            let Some(link) = taken.transpose()? else { return Ok(None) };
            let sign_in = sign_in(&link);
            insert_sign_in(connection, &sign_in)?;
            Ok(Some(sign_in))
        })
        .await
    }

    /// Writes a new sign-in down.
    pub async fn insert_sign_in(&self, sign_in: &SignInRecord) -> Result<(), StoreError> {
        let sign_in = sign_in.clone();
        self.write(move |connection| insert_sign_in(connection, &sign_in)).await
    }

    /// The sign-in with this hash, expired or not.
    pub async fn sign_in(&self, hash: SecretHash) -> Result<Option<SignInRecord>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT * FROM sign_ins WHERE hash = ?1")?;
            let found = statement.query_row([&hash[..]], |row| Ok(sign_in_from_row(row))).optional()?;
            found.transpose()
        })
        .await
    }

    /// Ends a sign-in; nothing happens when there is none.
    pub async fn delete_sign_in(&self, hash: SecretHash) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.prepare_cached("DELETE FROM sign_ins WHERE hash = ?1")?.execute([&hash[..]])?;
            Ok(())
        })
        .await
    }

    /// Forgets links and sign-ins that have expired.
    pub async fn prune(&self, now: f64) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.prepare_cached("DELETE FROM links WHERE expires_at <= ?1")?.execute([now])?;
            connection.prepare_cached("DELETE FROM sign_ins WHERE expires_at <= ?1")?.execute([now])?;
            Ok(())
        })
        .await
    }
}

fn insert_key(connection: &Connection, key: &KeyRecord) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO keys (id, tenant, name, role, prefix, hash, created_at, revoked_at)
         VALUES (:id, :tenant, :name, :role, :prefix, :hash, :created_at, :revoked_at)",
    )?;
    statement.execute(named_params! {
        ":id": key.id.as_str(),
        ":tenant": key.tenant,
        ":name": key.name,
        ":role": key.role.as_str(),
        ":prefix": key.prefix,
        ":hash": &key.hash[..],
        ":created_at": key.created_at,
        ":revoked_at": key.revoked_at,
    })?;
    Ok(())
}

fn revoke_key(
    connection: &Connection,
    tenant: &str,
    id: &KeyId,
    at: f64,
    keep_operator: bool,
) -> Result<Revoked, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM keys WHERE id = ?1 AND tenant = ?2")?;
    let found = statement.query_row([id.as_str(), tenant], |row| Ok(key_from_row(row))).optional()?;
    let Some(mut key) = found.transpose()? else { return Ok(Revoked::NotFound) };
    if key.revoked_at.is_none() {
        let mut others = connection
            .prepare_cached("SELECT 1 FROM keys WHERE tenant = ?1 AND role = ?2 AND revoked_at IS NULL AND id <> ?3")?;
        if keep_operator
            && key.role == Role::Operator
            && !others.exists([tenant, Role::Operator.as_str(), id.as_str()])?
        {
            return Ok(Revoked::LastOperator);
        }
        connection
            .prepare_cached("UPDATE keys SET revoked_at = ?2 WHERE id = ?1")?
            .execute(params![id.as_str(), at])?;
        key.revoked_at = Some(at);
    }
    connection.prepare_cached("DELETE FROM sign_ins WHERE key_id = ?1")?.execute([id.as_str()])?;
    Ok(Revoked::Done(key))
}

fn insert_sign_in(connection: &Connection, sign_in: &SignInRecord) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sign_ins (hash, tenant, role, name, key_id, key_hash, created_at, expires_at)
         VALUES (:hash, :tenant, :role, :name, :key_id, :key_hash, :created_at, :expires_at)",
    )?;
    statement.execute(named_params! {
        ":hash": &sign_in.hash[..],
        ":tenant": sign_in.tenant,
        ":role": sign_in.role.as_str(),
        ":name": sign_in.name,
        ":key_id": sign_in.key_id.as_ref().map(KeyId::as_str),
        ":key_hash": sign_in.key_hash.as_ref().map(|hash| &hash[..]),
        ":created_at": sign_in.created_at,
        ":expires_at": sign_in.expires_at,
    })?;
    Ok(())
}

fn key_from_row(row: &Row<'_>) -> Result<KeyRecord, StoreError> {
    Ok(KeyRecord {
        id: parse(&row.get::<_, String>("id")?)?,
        tenant: row.get("tenant")?,
        name: row.get("name")?,
        role: parse(&row.get::<_, String>("role")?)?,
        prefix: row.get("prefix")?,
        hash: row.get("hash")?,
        created_at: row.get("created_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}

fn link_from_row(row: &Row<'_>) -> Result<LinkRecord, StoreError> {
    Ok(LinkRecord {
        hash: row.get("hash")?,
        tenant: row.get("tenant")?,
        role: parse(&row.get::<_, String>("role")?)?,
        expires_at: row.get("expires_at")?,
    })
}

fn sign_in_from_row(row: &Row<'_>) -> Result<SignInRecord, StoreError> {
    Ok(SignInRecord {
        hash: row.get("hash")?,
        tenant: row.get("tenant")?,
        role: parse(&row.get::<_, String>("role")?)?,
        name: row.get("name")?,
        key_id: row.get::<_, Option<String>>("key_id")?.as_deref().map(parse).transpose()?,
        key_hash: row.get("key_hash")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
    })
}
