import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * A shop in an in-memory H2 database: inserts, indexed look-ups, joins, grouping, transactions, a
 * roll-back. Arguments: orders (2000 by default), repetitions (1 by default). Class path: h2.jar.
 */
public final class H2Load {
    private H2Load() {}

    public static void main(String[] args) throws Exception {
        int orders = args.length > 0 ? Integer.parseInt(args[0]) : 2000;
        int times = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        Class.forName("org.h2.Driver");
        for (int i = 0; i < times; i++) {
            shop(orders);
        }
    }

    private static void shop(int orders) throws SQLException {
        int customers = orders / 10 + 1;
        try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:shop")) {
            create(connection);
            fill(connection, customers, orders);
            long sum = lookUps(connection, orders);
            sum = sum * 31 + reports(connection);
            sum = sum * 31 + transactions(connection, customers);
            System.out.println("H2Load orders=" + orders + " checksum=" + Long.toHexString(sum));
        }
    }

    private static void create(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE customer(id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(20), balance INT)");
            statement.execute("CREATE TABLE orders(id INT PRIMARY KEY, customer INT REFERENCES customer(id), item VARCHAR(20), amount INT)");
            statement.execute("CREATE INDEX by_customer ON orders(customer)");
            statement.execute("CREATE INDEX by_item ON orders(item, amount)");
        }
    }

    private static void fill(Connection connection, int customers, int orders) throws SQLException {
        String[] cities = {"Bern", "Wien", "Oslo", "Rom", "Riga"};
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO customer VALUES(?, ?, ?, ?)")) {
            for (int i = 0; i < customers; i++) {
                insert.setInt(1, i);
                insert.setString(2, "customer " + i * 7919 % customers);
                insert.setString(3, cities[i % cities.length]);
                insert.setInt(4, 1000);
                insert.executeUpdate();
            }
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO orders VALUES(?, ?, ?, ?)")) {
            for (int i = 0; i < orders; i++) {
                insert.setInt(1, i);
                insert.setInt(2, (int) (i * 48271L % customers));
                insert.setString(3, "item " + i % 23);
                insert.setInt(4, i * 31 % 97);
                insert.executeUpdate();
            }
        }
    }

    private static long lookUps(Connection connection, int orders) throws SQLException {
        long sum = 0;
        String sql = "SELECT o.amount, c.city FROM orders o JOIN customer c ON c.id = o.customer WHERE o.id = ?";
        try (PreparedStatement query = connection.prepareStatement(sql)) {
            for (int i = 0; i < orders; i += 3) {
                query.setInt(1, i);
                try (ResultSet rows = query.executeQuery()) {
                    while (rows.next()) {
                        sum = sum * 31 + rows.getInt(1) + rows.getString(2).hashCode();
                    }
                }
            }
        }
        return sum;
    }

    private static long reports(Connection connection) throws SQLException {
        long sum = 0;
        String[] queries = {
            "SELECT c.city, COUNT(*), SUM(o.amount) FROM orders o JOIN customer c ON c.id = o.customer GROUP BY c.city ORDER BY c.city",
            "SELECT item, AVG(amount) FROM orders GROUP BY item HAVING COUNT(*) > 3 ORDER BY 2 DESC, 1",
            "SELECT name FROM customer WHERE id IN (SELECT customer FROM orders WHERE amount > 80) ORDER BY name LIMIT 20",
            "SELECT UPPER(item), MAX(amount) - MIN(amount) FROM orders WHERE item LIKE 'item 1%' GROUP BY item ORDER BY 1",
        };
        try (Statement statement = connection.createStatement()) {
            for (String query : queries) {
                try (ResultSet rows = statement.executeQuery(query)) {
                    while (rows.next()) {
                        sum = sum * 31 + rows.getString(1).hashCode();
                    }
                }
            }
            try {
                statement.executeQuery("SELECT nothing FROM nowhere");
            } catch (SQLException error) {
                sum += error.getErrorCode();
            }
        }
        return sum;
    }

    private static long transactions(Connection connection, int customers) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement update = connection.prepareStatement("UPDATE customer SET balance = balance + ? WHERE id = ?")) {
            for (int i = 0; i < customers; i++) {
                update.setInt(1, i % 11 - 5);
                update.setInt(2, i);
                update.executeUpdate();
                if (i % 50 == 49) {
                    if (i % 100 == 99) connection.rollback();
                    else connection.commit();
                }
            }
            connection.commit();
        }
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT SUM(balance), COUNT(*) FROM customer")) {
            rows.next();
            return rows.getLong(1) * 31 + rows.getLong(2);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
